"""Published figures, found again: each study is a function that returns what was found beside what was published."""
