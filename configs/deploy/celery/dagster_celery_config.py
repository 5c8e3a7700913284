"""What Celery workers are told; `dagster_celery.app` finds it by its name on PYTHONPATH.

Written like this, unlike by `dagster-celery worker start --config-yaml`, the URLs of broker and
results, which may hold passwords, are copied to no file.
"""

import os

broker_url = os.environ["TOURNAMENT_CELERY_BROKER"]
result_backend = os.environ.get("TOURNAMENT_CELERY_BACKEND") or broker_url
broker_connection_retry_on_startup = True
worker_prefetch_multiplier = 1  # one step at hand, none in reserve while others are idle
# A step that waits for a judge may take a day; until then Redis must not give it to another worker.
broker_transport_options = {"visibility_timeout": 7 * 24 * 3600}
