// Package health knows the state of the server: whether it can store what it accepts, whether its
// clock is right, and whether it should get traffic. It reports its measurements to observers. It
// makes two decisions: whether publishes are accepted, and whether the server is ready.
//
// It promises:
//
//   - A full disk loses no accepted event: publishes are refused before the disk is full;
//     see [Disk].
//   - The server is not ready while its writes to the store fail or hang; see [Writes].
//   - A request to /readyz gets its response within about a second. Requests to /readyz
//     cause at most one small write per second; see [Readiness].
package health
