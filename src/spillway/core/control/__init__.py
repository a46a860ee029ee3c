"""When and how much to shed: the queue model, its estimation, and the controllers."""
