// Package reports tests problems that operators of such servers have reported, if a test needs routers, middleware or an SDK.
// docs/field-reports.md lists all reports with their tests.
package reports
