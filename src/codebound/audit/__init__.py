"""Reports, signatures and joint statements for auditors."""
