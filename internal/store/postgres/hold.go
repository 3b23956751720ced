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

// lockClass is the first of the two numbers of a node's lock; the second one is its
// incarnation. It is "post" in ASCII, so that other users of the database do not have it
// by chance.
//
// The lock is a session-level advisory lock. The server frees it when the session ends: at
// a clean end, when the process dies, and when the machine dies and the keep-alives get no
// reply. So a free lock says that the node cannot write through this session any more,
// within milliseconds for a killed process, without any heartbeat that is late. The
// session is the one that hears the wake-ups, and its blocked read notices a lost
// connection at once, at the node's end as well.
const lockClass = 0x706f7374

// Which nodes have their locks, and which backends hold them. pg_locks is read from shared
// memory and not from a snapshot: it shows the present, also in a transaction that waited.
// objsubid = 2 means a lock of two numbers.
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
	pids         []uint32 // the backend that holds the lock of the same index
}

func (h *heldLocks) collect(rows pgx.Rows) error {
	h.incarnations = []int64{} // nil would be null
	var incarnation int64
	var pid uint32
	_, err := pgx.ForEachRow(rows, []any{&incarnation, &pid}, func() error {
		h.incarnations, h.pids = append(h.incarnations, incarnation), append(h.pids, pid)
		return nil
	})
	return err
}

// sessions are the membership connections of the nodes of this process. A server has one
// node; tests have more. Hold writes them, and heartbeats read them.
type sessions struct {
	mu   sync.Mutex
	open map[uint32]*session // by incarnation; while Hold has the lock, or is shared
	last map[uint32]uint32   // by incarnation: the backend that had the lock last; it outlives the session
	warn sync.Once           // for the warning about a proxy
}

// session is a connection of [Store.Hold]. lock fills it in before it is added to
// sessions.
type session struct {
	pid    uint32                  // the backend that holds the lock
	shared bool                    // a proxy shares the connection with others: there is no lock
	cancel context.CancelCauseFunc // ends Hold
}

// state tells a heartbeat how its node stands: locked if its own backend has the lock,
// shared if its connection can have none.
//
// The pid is compared too: after a reconnection the backend of the old connection may
// still have the lock, and would lose it at any moment. If the lock is not with the
// session, the session is ended. Its caller then calls Hold again, which takes the lock
// anew.
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

// errLockLost ends a session whose backend has lost the lock while the connection lives.
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

// remove is add undone, unless the incarnation has a newer session.
func (s *sessions) remove(incarnation uint32, own *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[incarnation] == own {
		delete(s.open, incarnation)
	}
}

// lastBackend returns the backend that had the node's lock before; 0: none had.
func (s *sessions) lastBackend(incarnation uint32) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[incarnation]
}

// keepAlive makes this end notice within 30 s (15 + 3×5) that the server's machine is
// gone. The server's own settings, in keepSessionSQL, are shorter: the others wait for its
// end.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// Hold takes the node's lock and calls onMessage with every message, until ctx ends or the
// connection is lost. The connection is its own and not one of the pool's: the pool would
// give the session, and the lock with it, to other statements.
//
// Behind a proxy that shares connections between transactions there is no lock and no
// message: the heartbeat decides whether the node lives, and its caller polls.
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

// hold connects, takes the lock, and reads messages. It listens before it reports that it
// holds, by the empty message: what is sent after that report is heard.
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

// The session must not be ended for being idle, it waits for its lock, and the server must notice within 11 s (5
// + 3×2) that the machine of the node is gone, since the lock is free only then. These are
// set by a statement and not as parameters of the connection, because proxies refuse
// parameters that they do not know.
const keepSessionSQL = `
	select set_config('idle_session_timeout', '0', false), set_config('lock_timeout', '0', false), set_config('tcp_keepalives_idle', '5', false),
		set_config('tcp_keepalives_interval', '2', false), set_config('tcp_keepalives_count', '3', false)`

// Ends the backend that had this node's lock before, if it still has it. When a connection
// breaks without a word to the server, its backend lives on until the keep-alives fail,
// and the new session would wait for the lock that long. The backend is named by its pid
// and by the lock, so no other session is ended.
const endSessionBeforeSQL = `
	select pg_terminate_backend(l.pid)
	from (` + heldLocksSQL + ` and l.objid = @objid and l.pid = @pid) l`

// Waits for the lock, and holds it until the session ends.
const lockSQL = `select pg_advisory_lock(@class::bigint::int, @key)`

// lock takes the node's lock in the connection's session.
//
// It notices a proxy by the backend's pid. A server tells each connection the pid of its
// backend at the start. If pg_backend_pid() is another one, a proxy stands between and may
// give the backend to others after each transaction. A session lock would then belong to
// the next client of that backend, so none is taken.
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
