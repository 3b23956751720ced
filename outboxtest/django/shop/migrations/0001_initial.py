from django.db import migrations, models


class Migration(migrations.Migration):
    initial = True
    operations = [
        migrations.CreateModel(
            name="Order",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("number", models.TextField(unique=True)),
                ("total", models.IntegerField()),
            ],
            options={"db_table": "orders"},
        )
    ]
