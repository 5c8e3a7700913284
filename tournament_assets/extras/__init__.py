"""Features that most tournaments do not use, each in a folder that nothing else imports.

An extra may import all of the core and no other extra. The core reads what it adds as rows
(`foundation/extensions.py`), and runs without its folder as before.
"""
