// Package health knows how a server is: whether it can store what it accepts, whether its clock
// is right, and whether it should get traffic. What it measures it tells to observers; what it
// decides is whether publishes have room, and whether the server is ready.
//
// It promises:
//
//   - A full disk loses nothing that was accepted: publishes are refused before that; see [Disk].
//   - The server is not ready while its writes to the store fail or hang; see [Writes].
//   - A request to /readyz has its response within about a second, and costs at most one small
//     write in each second; see [Readiness].
package health
