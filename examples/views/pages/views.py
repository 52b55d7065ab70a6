"""Counts the views of pages."""

from django.db.models import F, Sum
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone

from .models import Page


def page(request: HttpRequest, name: str) -> HttpResponse:
    """A page. Counts this view."""
    counted = Page.objects.filter(pk=name).update(views=F("views") + 1, last_viewed=timezone.now())
    if not counted:
        raise Http404(f"there is no page {name}")
    return JsonResponse({"name": name, "views": Page.objects.get(pk=name).views})


def ranking(request: HttpRequest) -> HttpResponse:
    """All views, and the ten pages with the most views."""
    total = Page.objects.aggregate(Sum("views"))["views__sum"]
    top = Page.objects.order_by("-views", "name").values("name", "views", "last_viewed")[:10]
    return JsonResponse({"views": total, "top": list(top)})
