"use strict";
async function refresh() {
  try {
    const figures = await (await fetch("/health")).json();
    for (const [name, value] of Object.entries(figures)) {
      const place = document.getElementById(name);
      if (place) place.textContent = String(value);
    }
    document.body.classList.remove("lost");
  } catch {
    document.body.classList.add("lost");
  }
}
setInterval(refresh, 2000);
refresh();
