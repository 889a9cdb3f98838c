"""How a headline sounds to someone who holds the share, by our own lexicon `lex-1`.

The text is cut into clauses and each clause into terms, longest first. Good and bad terms carry their weight.
A movement takes the nearest thing that moves in its clause: up is good and down is bad, and the other way
round for a burden, so that "the loss narrowed" and "costs fell" are good. A burden that nothing moves is bad;
one that meets a relief, as in "the lawsuit was dismissed", is good. A denial up to three words before a term
turns it round; an adverb beside it makes it stronger or weaker.

With P and N the sums of the good and of the bad weights:

    score  = (P - N) / (P + N + 1)        from -1 to 1; positive from 0.25 on, negative from -0.25 down
    impact = (P + N) / (P + N + 3)        from 0 to 1: how much was said, whichever way
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from typing import Final, Literal

MODEL: Final = "lex-1"
Label = Literal["positive", "negative", "neutral"]

THRESHOLD: Final = 0.25
LONGEST_TEXT: Final = 4_000

_CLAUSE: Final = re.compile(
    r"[.;:!?]+(?:\s|$)|,\s|\s[-–—]\s|\b(?:but|while|although|though|whereas|as|after)\b"
)
_WORD: Final = re.compile(r"[a-z0-9]+(?:[-'’&][a-z0-9]+)*")
_LONGEST_CLAUSE: Final = 60
"""Words; what is longer is no sentence, and is cut so that the work stays linear."""
_REACH: Final = 6
"""Words between a movement and what moves."""
_TOGETHER: Final = 3
_DENIAL_REACH: Final = 3
_DENIED: Final = -0.8
"""To deny a term says the opposite, a little less firmly."""
_UNNAMED: Final = 0.6
"""The weight of a movement when nothing known moves."""


@dataclass(frozen=True, slots=True)
class Sentiment:
    """A judgement: its label, and the two figures told above, rounded to four places."""

    label: Label
    score: float
    impact_score: float


@dataclass(frozen=True, slots=True)
class Term:
    """What a phrase of the lexicon does, and with which weight."""

    role: str
    weight: float


@dataclass(slots=True)
class _Found:
    """A term at its place in a clause."""

    first: int
    last: int
    term: Term
    moved: bool = False


def score(text: str) -> Sentiment:
    """Judge a text; one without any term of the lexicon is neutral."""
    good = bad = 0.0
    for clause in _CLAUSE.split(text[:LONGEST_TEXT].lower().replace("’", "'")):
        words = _WORD.findall(clause)
        for at in range(0, len(words), _LONGEST_CLAUSE):
            for weight in _weights(words[at : at + _LONGEST_CLAUSE]):
                good, bad = good + max(weight, 0.0), bad + max(-weight, 0.0)
    value = (good - bad) / (good + bad + 1)
    label = "positive" if value >= THRESHOLD else "negative" if value <= -THRESHOLD else "neutral"
    return Sentiment(label, round(value, 4), round((good + bad) / (good + bad + 3), 4))


def _weights(words: Sequence[str]) -> Iterator[float]:
    """Yield the signed weight of each term of a clause that has one."""
    found = list(_terms(words))
    signed = [(each, _moving(each, found)) for each in found if each.term.role in ("up", "down")]
    signed += [(each, _relieving(each, found)) for each in found if each.term.role == "relief"]
    signed += [(each, each.term.weight) for each in found if each.term.role == "good"]
    signed += [(each, -each.term.weight) for each in found if each.term.role == "bad"]
    # Last, because by now each burden that something moves is marked.
    signed += [(each, -each.term.weight) for each in found if each.term.role == "burden" and not each.moved]
    for each, weight in signed:
        yield weight * _emphasis(each, found) * (_DENIED if _is_denied(each, found) else 1.0)


def _moving(movement: _Found, found: Sequence[_Found]) -> float:
    weight = movement.term.weight if movement.term.role == "up" else -movement.term.weight
    thing = _nearest(movement, found, ("asset", "burden"))
    if thing is None:
        return weight * _UNNAMED
    _mark(thing, found)
    return -weight if thing.term.role == "burden" else weight


def _relieving(relief: _Found, found: Sequence[_Found]) -> float:
    thing = _nearest(relief, found, ("burden",))
    if thing is None:
        return 0.0
    _mark(thing, found)
    return relief.term.weight


def _nearest(each: _Found, found: Sequence[_Found], roles: tuple[str, ...]) -> _Found | None:
    near = [other for other in found if other.term.role in roles and _distance(each, other) <= _REACH]
    return min(near, key=lambda other: _distance(each, other), default=None)


def _mark(thing: _Found, found: Sequence[_Found]) -> None:
    """Mark what moves, and with it what it is made of: "provisions for losses" is one thing."""
    thing.moved = True
    for other in found:
        if other.term.role == "burden" and _distance(thing, other) <= _TOGETHER:
            other.moved = True


def _emphasis(each: _Found, found: Sequence[_Found]) -> float:
    beside = [
        other.term.weight for other in found if other.term.role == "more" and _distance(each, other) <= 1
    ]
    return beside[0] if beside else 1.0


def _is_denied(each: _Found, found: Sequence[_Found]) -> bool:
    return any(other.term.role == "not" and 0 < each.first - other.last <= _DENIAL_REACH for other in found)


def _distance(one: _Found, other: _Found) -> int:
    return max(other.first - one.last, one.first - other.last)


# --- the lexicon ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Lexicon:
    """The terms by their words, and for each word that begins longer ones how many words those have."""

    terms: Mapping[str, Term]
    lengths: Mapping[str, tuple[int, ...]]


def _terms(words: Sequence[str]) -> Iterator[_Found]:
    lengths = lexicon().lengths
    at = 0
    while at < len(words):
        for length in (*lengths.get(words[at], ()), 1):
            term = _look_up(" ".join(words[at : at + length])) if at + length <= len(words) else None
            if term is not None:
                yield _Found(at, at + length - 1, term)
                break
        else:
            length = 1
        at += length


@lru_cache(maxsize=8_192)
def _look_up(phrase: str) -> Term | None:
    terms = lexicon().terms
    exact = terms.get(phrase)
    if exact is not None:
        return exact
    # A term with a star matches by its longest stem, which reaches into the last word.
    stems = (terms.get(phrase[:length] + "*") for length in range(len(phrase), phrase.rfind(" ") + 1, -1))
    return next((stem for stem in stems if stem is not None), None)


@cache
def lexicon() -> Lexicon:
    """The terms of lexicon.txt."""
    text = files("tracedesk.trading").joinpath("lexicon.txt").read_text(encoding="ascii")
    terms: dict[str, Term] = {}
    lengths: dict[str, set[int]] = {}
    role, weight = "", 1.0
    for line in text.splitlines():
        if line.startswith("["):
            role, _, figure = line.strip("[]").partition(" ")
            weight = float(figure or 1)
        elif line and not line.startswith("#"):
            terms[line] = Term(role, weight)
            first, *rest = line.split()
            if rest:
                lengths.setdefault(first, set()).add(1 + len(rest))
    return Lexicon(terms, {word: tuple(sorted(some, reverse=True)) for word, some in lengths.items()})
