// Package kit is shared by the tests below tests: apps that a test controls, requests, one-line summaries of what was answered, stores and
// writers that fail, and virtual time. A helper that only one package needs belongs to that package.
package kit
