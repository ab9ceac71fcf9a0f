"""SQL of the adapter search, which the store finds and runs: its tables (`0001_*.sql`, …), its views, what packs and
shards carry of its tables (`carry/`), and how that becomes rows again (`load/`).
"""
