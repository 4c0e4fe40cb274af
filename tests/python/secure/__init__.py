"""Masked updates in Python, written from the section of that name in docs/protocol.md.

| module | what is in it |
|---|---|
| `roster` | context, records, the circle of neighbours, and the keys that follow from them |
| `shamir` | secrets in shares over GF(2^8) |
| `sealing` | what members send to each other |
| `values` | from a delta to whole numbers: clip, rotation, keep, rounding |
| `words` | masks, and the bytes of a masked update |
| `demands` | when a client refuses a group |
| `member` | a member of a group: what it sends at each stage |
| `exchange` | the calls of one update |
"""
