from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Page",
            fields=[
                ("name", models.SlugField(primary_key=True, serialize=False)),
                ("views", models.PositiveBigIntegerField(default=0)),
                ("last_viewed", models.DateTimeField(null=True)),
            ],
        ),
    ]
