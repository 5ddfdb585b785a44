package fencehttp

// Parse is how a server reads the field.
var Parse = parse
