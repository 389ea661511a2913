SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#documentation",
  deepLinking: true,
  // Else it would ask a validator on another host.
  validatorUrl: null,
});
