"""Every planned request gets its reply once: submit, adopt, harvest, close."""
