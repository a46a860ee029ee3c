"""Tables with plain columns, and integer codes for words: values that all kinds of work share."""
