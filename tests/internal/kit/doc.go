// Package kit is what the tests of this folder share: apps that do what a test says, requests and the answers to them in a line of
// words, stores and writers that fail, and virtual time. A helper that one package alone needs stays there.
package kit
