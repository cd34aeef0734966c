def model(dbt, session):
    """Publish under l-diversity(5), and audit what was published against the raw table."""
    import pandas as pd

    import sfumato as sf

    dbt.config(materialized="table")
    dbt.ref("patients")  # the raw model is there before anything is published
    patients, release = dbt.config.get("patients"), dbt.config.get("release")
    sf.publish(
        patients,
        "l-diversity(5)",
        mechanism="optimal",
        to=release,
        quasi=["age", "sex", "region", "admission"],
        sensitive="diagnosis",
    )
    found = sf.audit(patients, release).to_json()["findings"]
    return pd.DataFrame([{"check": each["check"], "result": each["result"]} for each in found])
