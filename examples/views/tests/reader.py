"""Prints as JSON what an admin reads. Nothing waits for the log before."""

import json

import django

django.setup()

from django.db import connection  # noqa: E402: after the set-up
from django.db.models import Sum  # noqa: E402
from django.test import Client  # noqa: E402

from pages.models import Page  # noqa: E402

client = Client(headers={"host": "localhost"})
ranking = client.get("/").json()
before = {"views": ranking["views"], "each": [page["views"] for page in ranking["top"]]}

client.get("/team/")
top = Page.objects.order_by("-views", "-last_viewed").first()
after = {
    "views": Page.objects.aggregate(Sum("views"))["views__sum"],
    "first": [top.name, top.views],
    "more": Page.objects.filter(views__gt=before["each"][0]).count(),
}
found = list(Page.objects.filter(name__icontains="DO").order_by("name").values_list("name", flat=True))

with connection.cursor() as cursor:
    cursor.execute("SELECT densite_log_last()")
    (log,) = cursor.fetchone()  # None without a log
print(json.dumps({"before": before, "after": after, "found": found, "log": log}))
