// Package observability has alert rules and a dashboard for the metrics of
// adapters/idleprom, and the tests of both.
package observability
