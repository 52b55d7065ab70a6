"""Django on Densite: ``"ENGINE": "densite.django"`` in DATABASES. Everything is as with Django's own SQLite backend; new files become Densite files, and plain ones are served as they are."""
