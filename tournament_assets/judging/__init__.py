"""Pure functions that decide what to ask the judge and what its replies mean.

The code here depends on its arguments alone: which pairs to judge, the exact text of each request,
what verdict a reply carries, how two presentations become one judgment. It reaches anything outside
the process only through a protocol that the caller supplies.
"""
