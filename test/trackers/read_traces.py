"""Prints how many traces MLflow's default experiment has, and how many spans of each name: {"traces": n, "spans": {name: n}}."""
import json
import sys
from collections import Counter

from mlflow import MlflowClient

client = MlflowClient(tracking_uri=sys.argv[1])
traces, page = [], None
while page is None or page.token:
    page = client.search_traces(experiment_ids=["0"], max_results=100, page_token=page and page.token)
    traces += page
spans = Counter(span.name for trace in traces for span in trace.data.spans)
print(json.dumps({"traces": len(traces), "spans": spans}))
