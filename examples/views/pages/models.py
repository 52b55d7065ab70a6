"""The pages of the site, and how often each was viewed."""

import densite.django
from django.db import models


@densite.django.ingest(on_conflict="ignore")
class Page(models.Model):
    name = models.SlugField(primary_key=True)
    views = models.PositiveBigIntegerField(default=0)
    last_viewed = models.DateTimeField(null=True)
