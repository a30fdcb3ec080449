"""The seam between independent jobs and what runs them: processes of this machine, or a Ray cluster."""
