"""Projects and contracts that would take the machine, and a process that tries them one by one."""
