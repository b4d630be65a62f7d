// Package middleware tests rejoin behind widely used middleware, on every router and over every version of HTTP, with one process and
// through another one. The results are in docs/middleware.md.
package middleware
