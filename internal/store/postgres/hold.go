package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// lockClass is the first of the two numbers of a node's lock; the second is the node's
// incarnation. It is "post" in ASCII, so that other users of the database do not use the same
// number by chance.
//
// The lock is a session-level advisory lock. The server frees it when the session ends: at a
// clean end, when the process dies, and when the keep-alives of a dead machine get no reply. So a
// free lock proves that the node can no longer write through this session. For a killed process
// the lock is free within milliseconds, long before a heartbeat would be late. The same session
// receives the wake-ups. Its blocked read notices a lost connection at once, on the node's side
// too.
const lockClass = 0x706f7374

// heldLocksSQL returns which nodes have their locks, and which backends hold them. PostgreSQL
// reads pg_locks from shared memory and not from a snapshot, so it shows the present, even in a
// transaction that has waited. The condition objsubid = 2 selects locks of two numbers.
const heldLocksSQL = `
	select l.objid::bigint as objid, l.pid
	from pg_locks l
	where l.locktype = 'advisory' and l.granted and l.classid = @class and l.objsubid = 2
		and l.database = (select d.oid from pg_database d where d.datname = current_database())`

// lockArgs returns the two numbers of a node's lock.
func lockArgs(incarnation uint32) pgx.NamedArgs {
	return pgx.NamedArgs{"class": uint32(lockClass), "objid": incarnation}
}

// heldLocks are the node locks that are held at the time of a heartbeat.
type heldLocks struct {
	incarnations []int64
	pids         []uint32 // pids[i] is the backend that holds the lock of incarnations[i]
}

func (h *heldLocks) collect(rows pgx.Rows) error {
	h.incarnations = []int64{} // a nil slice would be null
	var incarnation int64
	var pid uint32
	_, err := pgx.ForEachRow(rows, []any{&incarnation, &pid}, func() error {
		h.incarnations, h.pids = append(h.incarnations, incarnation), append(h.pids, pid)
		return nil
	})
	return err
}

// sessions has the connections of [Store.Hold] of this process's nodes, by incarnation. A server
// has one node; tests have more. Hold writes the maps, and heartbeats read them.
type sessions struct {
	mu   sync.Mutex
	open map[uint32]*session // sessions whose Hold has the lock, or whose connection is shared
	last map[uint32]uint32   // the backend that had the lock last; stays after the session's end
	warn sync.Once           // for the warning about a proxy
}

// session is a connection of [Store.Hold]. The method lock sets pid and shared before the session
// is added to sessions.
type session struct {
	pid    uint32                  // the backend that holds the lock
	shared bool                    // whether a proxy shares the connection with other clients, so that there is no lock
	cancel context.CancelCauseFunc // ends Hold
}

// state returns the state of a node for its heartbeat: locked if the backend of the node's
// session has the lock, shared if the node's connection cannot have a lock.
//
// It compares the pid of the backend too. After a reconnection the backend of the old connection
// may still have the lock, and can lose it at any moment. If the session does not have the lock,
// state ends the session. Then Hold returns, its caller calls Hold again, and Hold takes the lock
// again.
func (s *sessions) state(incarnation uint32, held heldLocks) (locked, shared bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	own := s.open[incarnation]
	if own == nil || own.shared {
		return false, own != nil
	}
	i := slices.Index(held.incarnations, int64(incarnation))
	if i >= 0 && held.pids[i] == own.pid {
		return true, false
	}
	own.cancel(errLockLost)
	return false, false
}

// errLockLost ends a session whose backend has lost the lock although the connection is open.
var errLockLost = errors.New("the server has freed the lock of this node")

// add makes the session visible to heartbeats.
func (s *sessions) add(incarnation uint32, own *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open, s.last = map[uint32]*session{}, map[uint32]uint32{}
	}
	s.open[incarnation] = own
	s.last[incarnation] = own.pid
}

// remove undoes add, unless the incarnation has a newer session.
func (s *sessions) remove(incarnation uint32, own *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[incarnation] == own {
		delete(s.open, incarnation)
	}
}

// lastBackend returns the backend that had the node's lock last, or 0 if there was none.
func (s *sessions) lastBackend(incarnation uint32) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[incarnation]
}

// keepAlive makes the node notice within 30 s (15 + 3×5) that the server's machine is gone. The
// server's own settings, in keepSessionSQL, are shorter, because other nodes wait until the
// server has noticed the end of this node.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// Hold takes the node's lock and calls onMessage with every message, until ctx ends or the
// connection is lost. It uses a separate connection: the pool would give the session, with the
// lock, to other statements.
//
// Behind a proxy that shares connections between transactions there is no lock and no message.
// Then the heartbeat decides whether the node lives, and the caller polls.
func (s *Store) Hold(ctx context.Context, incarnation uint32, onMessage func(message string)) error {
	config := s.pool.Config().ConnConfig.Copy()
	config.RuntimeParams["application_name"] = "postrider-node"
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if tcp, ok := conn.(*net.TCPConn); ok && err == nil {
			err = tcp.SetKeepAliveConfig(keepAlive)
		}
		return conn, err
	}
	if err := s.hold(ctx, config, incarnation, onMessage); err != nil {
		return fmt.Errorf("hold the lock of incarnation %d: %w", incarnation, fault(err))
	}
	return nil
}

// hold connects, takes the lock, and reads messages. It listens before its first call of
// onMessage, so the node receives all messages that are sent after that call.
func (s *Store) hold(ctx context.Context, config *pgx.ConnConfig, incarnation uint32, onMessage func(string)) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	own := &session{}
	ctx, own.cancel = context.WithCancelCause(ctx)
	defer own.cancel(nil)
	if err := s.lock(ctx, conn, incarnation, own); err != nil {
		return err
	}
	s.sessions.add(incarnation, own)
	defer s.sessions.remove(incarnation, own)
	if _, err := conn.Exec(ctx, `listen `+channel); err != nil {
		return err
	}
	onMessage("")
	for {
		n, err := conn.WaitForNotification(ctx)
		switch {
		case err == nil:
			onMessage(n.Payload)
		case errors.Is(context.Cause(ctx), errLockLost):
			return errLockLost
		default:
			return err
		}
	}
}

// keepSessionSQL sets how the server treats the session. The session must not end for being idle,
// and must wait for its lock without a limit. The server must notice within 11 s (5 + 3×2) that
// the node's machine is gone, because only then is the lock free. A statement sets these, because
// proxies refuse connection parameters that they do not know.
const keepSessionSQL = `
	select set_config('idle_session_timeout', '0', false), set_config('lock_timeout', '0', false), set_config('tcp_keepalives_idle', '5', false),
		set_config('tcp_keepalives_interval', '2', false), set_config('tcp_keepalives_count', '3', false)`

// endSessionBeforeSQL ends the backend that had this node's lock before, if that backend still
// has it. When a connection breaks without a message to the server, its backend lives until the
// keep-alives fail, and the new session would wait that long for the lock. The condition names
// the backend by its pid and by the lock, so that no other session is ended.
const endSessionBeforeSQL = `
	select pg_terminate_backend(l.pid)
	from (` + heldLocksSQL + ` and l.objid = @objid and l.pid = @pid) l`

// lockSQL waits for the lock. The session holds it until it ends.
const lockSQL = `select pg_advisory_lock(@class::bigint::int, @key)`

// lock takes the node's lock in the session of the connection.
//
// It detects a proxy by the backend's pid. A server tells each connection the pid of its backend
// at the start. If pg_backend_pid() returns another pid, a proxy is in between, which may give
// the backend to other clients after each transaction. A session lock would then belong to the
// next client of that backend, so lock takes none.
func (s *Store) lock(ctx context.Context, conn *pgx.Conn, incarnation uint32, own *session) error {
	if err := conn.QueryRow(ctx, `select pg_backend_pid()`).Scan(&own.pid); err != nil {
		return err
	}
	if own.shared = own.pid != conn.PgConn().PID(); own.shared {
		s.sessions.warn.Do(func() {
			s.log.WarnContext(ctx, "the database is behind a proxy that shares connections: the heartbeat decides whether a node is dead")
		})
		return nil
	}
	args := lockArgs(incarnation)
	args["pid"], args["key"] = s.sessions.lastBackend(incarnation), int32(incarnation)
	b := &pgx.Batch{}
	b.Queue(keepSessionSQL)
	b.Queue(endSessionBeforeSQL, args)
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, lockSQL, args)
	return err
}
