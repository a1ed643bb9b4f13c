"""One question of the coordinator's each: what comes next, with which options, what stays, who is told again.

None of them knows the coordinator. All pure.
"""
