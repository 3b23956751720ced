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

// A node's lock is a session-level advisory lock of two numbers: this one, and
// the incarnation. Its session is the one that hears the wake-ups: the server
// frees the lock when it sees that the connection is gone, and the node's
// blocked read sees the same at once.
const lockClass = 0x706f7374

// Which nodes have their locks, and which sessions hold them. pg_locks is no
// table: it is read from shared memory, whatever the snapshot.
const heldLocksSQL = `
	select l.objid::bigint, l.pid
	from pg_locks l
	where l.locktype = 'advisory' and l.granted and l.classid = @class and l.objsubid = 2
		and l.database = (select d.oid from pg_database d where d.datname = current_database())`

func lockArgs(incarnation uint32) pgx.NamedArgs {
	return pgx.NamedArgs{"class": uint32(lockClass), "objid": incarnation}
}

// heldLocks are the locks of nodes that are held.
type heldLocks struct {
	incarnations []int64
	pids         []uint32 // each at the place of its incarnation
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

// sessions are the membership connections of this process's nodes: one, but for
// tests.
type sessions struct {
	mu   sync.Mutex
	open map[uint32]*session
	last map[uint32]uint32 // the backend that held a node's lock last
	warn sync.Once
}

type session struct {
	pid    uint32 // of the backend that holds the lock
	shared bool   // behind a proxy: there is no lock
	cut    context.CancelCauseFunc
}

// state reports whether the node has its lock, or has a connection that can hold
// none. A session whose lock is gone is ended, so that the node takes it again.
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
	own.cut(errLockLost)
	return false, false
}

var errLockLost = errors.New("the server has freed the lock of this node")

func (s *sessions) add(incarnation uint32, own *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open, s.last = map[uint32]*session{}, map[uint32]uint32{}
	}
	s.open[incarnation] = own
	s.last[incarnation] = own.pid
}

func (s *sessions) remove(incarnation uint32, own *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[incarnation] == own {
		delete(s.open, incarnation)
	}
}

func (s *sessions) before(incarnation uint32) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last[incarnation]
}

// A peer that is gone without a word is noticed within half a minute.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}

// Hold takes the node's lock and calls heard with every message. It has a
// connection of its own, which is not one of the pool's. Behind a proxy that
// shares connections between transactions it has no lock and hears nothing: the
// heartbeat decides, and its caller polls.
func (s *Store) Hold(ctx context.Context, incarnation uint32, heard func(message string)) error {
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
	if err := s.hold(ctx, config, incarnation, heard); err != nil {
		return fmt.Errorf("hold the lock of incarnation %d: %w", incarnation, fault(err))
	}
	return nil
}

func (s *Store) hold(ctx context.Context, config *pgx.ConnConfig, incarnation uint32, heard func(string)) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	own := &session{}
	ctx, own.cut = context.WithCancelCause(ctx)
	defer own.cut(nil)
	if err := s.lock(ctx, conn, incarnation, own); err != nil {
		return err
	}
	s.sessions.add(incarnation, own)
	defer s.sessions.remove(incarnation, own)
	if _, err := conn.Exec(ctx, `listen `+channel); err != nil {
		return err
	}
	heard("")
	for {
		n, err := conn.WaitForNotification(ctx)
		switch {
		case err == nil:
			heard(n.Payload)
		case errors.Is(context.Cause(ctx), errLockLost):
			return errLockLost
		default:
			return err
		}
	}
}

// The session must not be ended for being idle, and a peer that is gone without
// a word must lose the lock in seconds. Settings and not parameters of the
// connection: proxies refuse those that they do not know.
const keepSessionSQL = `
	select set_config('idle_session_timeout', '0', false), set_config('tcp_keepalives_idle', '5', false),
		set_config('tcp_keepalives_interval', '2', false), set_config('tcp_keepalives_count', '3', false)`

// The session that held this node's lock before may still be there, when its
// connection broke without a word to the server.
const endSessionBeforeSQL = `
	select pg_terminate_backend(l.pid)
	from (` + heldLocksSQL + ` and l.objid = @objid and l.pid = @pid) l`

const lockSQL = `select pg_advisory_lock(@class::bigint::int, @key)`

// lock takes the node's lock in the connection's session. A server tells each
// connection the number of its session's process. Where the session is another
// process's, a proxy stands between that may give it to others after every
// transaction: no lock is taken.
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
	args["pid"], args["key"] = s.sessions.before(incarnation), int32(incarnation)
	b := &pgx.Batch{}
	b.Queue(keepSessionSQL)
	b.Queue(endSessionBeforeSQL, args)
	if err := conn.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	_, err := conn.Exec(ctx, lockSQL, args)
	return err
}
