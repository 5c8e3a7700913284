"""From prompts to responses: recorded, generated here, or asked of a service."""
