"""Settings of the example. Only ENGINE and WAL mode concern Densite."""

from pathlib import Path

BASE_DIR = Path(__file__).resolve().parent.parent

SECRET_KEY = "only for this example"
DEBUG = True
INSTALLED_APPS = ["pages"]
MIDDLEWARE = ["django.middleware.common.CommonMiddleware"]
ROOT_URLCONF = "project.urls"
USE_TZ = True

DATABASES = {
    "default": {
        "ENGINE": "densite.django",
        "NAME": BASE_DIR / "site.db",
        "OPTIONS": {"init_command": "PRAGMA journal_mode=WAL"},
    },
}
