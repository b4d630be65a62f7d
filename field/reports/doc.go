// Package reports tests what people who run such servers have reported, where it takes routers, middleware or an SDK to see it:
// docs/field-reports.md names all rows and their tests.
package reports
