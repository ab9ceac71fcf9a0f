"""Task families: what an item is, its gold answer, and how free text is graded. One file a family.

Imports none of them: a stage depends on the families that it uses. `registry` finds one by its name.
"""
