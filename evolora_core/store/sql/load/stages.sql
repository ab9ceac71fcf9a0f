SELECT *, '' AS folder FROM carried_stages
