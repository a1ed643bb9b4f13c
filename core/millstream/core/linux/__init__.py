"""Every call that only Linux has, and what takes its place elsewhere: no other package makes one.

Each function takes the platform, as `sys.platform` names it, so that the replacement is tested on Linux as well. What a
user loses without Linux is listed in `losses.py`, which `millstream doctor` and `docs/deployment.md` show.
"""
