// Package zoo tests rejoin behind the middleware that people really have around it, on every router and over every version of HTTP. What it
// finds stands in docs/middleware.md.
package zoo
