"""Settings for Django's own tests, with all databases in files."""

import os

ENGINE = "densite.django" if os.environ["SUITES_STORE"] == "densite" else "django.db.backends.sqlite3"


def in_file(name):
    path = f"{os.environ['SUITES_FILES']}/{name}.db"
    return {"ENGINE": ENGINE, "NAME": path, "TEST": {"NAME": f"{path}-test.db"}}


DATABASES = {"default": in_file("default"), "other": in_file("other")}
SECRET_KEY = "django_tests_secret_key"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
