// Package bench measures pawl and other lock libraries side by side: in one
// process, on the same servers, through the same client library, in rounds that
// take turns, so that what else the machine does hits all of them alike. What is
// compared are medians over the rounds, and ratios within a round.
//
//	make bench-peers
//
// prints the tables of docs/performance.md. Without the flags of that target the
// tests are a short run that shows that everything works, and no measurement.
//
// It is a module of its own outside go.work, so that the libraries it compares
// raise nobody else's versions. A benchmark of other stores is a file like
// redlock_test.go; another library is one more [peer].
package bench
