"""The addresses of the site."""

from django.urls import path

from pages import views

urlpatterns = [
    path("", views.ranking),
    path("<slug:name>/", views.page),
]
