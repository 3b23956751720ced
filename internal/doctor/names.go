package doctor

// Name is the name of a check. It never changes, because scripts compare it.
type Name string

// The checks. docs/operate/doctor.md explains each check; a test compares the two lists.
const (
	Settings  Name = "config.settings"
	PublicURL Name = "config.public_url"

	Connect           Name = "database.connect"
	Version           Name = "database.version"
	Permissions       Name = "database.permissions"
	DatabaseTables    Name = "database.migrations"
	Fsync             Name = "database.fsync"
	FullPageWrites    Name = "database.full_page_writes"
	SynchronousCommit Name = "database.synchronous_commit"
	MinWALSize        Name = "database.min_wal_size"
	MaxWALSize        Name = "database.max_wal_size"
	SharedBuffers     Name = "database.shared_buffers"
	ConnectionLimit   Name = "database.connections"
	PoolerMode        Name = "database.pooler"
	Listen            Name = "database.listen"
	Timeouts          Name = "database.timeouts"
	RoundTrip         Name = "database.round_trip"
	CommitLatency     Name = "database.commit_latency"
	DatabaseClock     Name = "database.clock"
	DatabaseDisk      Name = "database.disk"

	Folder       Name = "sqlite.folder"
	FileModes    Name = "sqlite.permissions"
	FileSystem   Name = "sqlite.file_system"
	InUse        Name = "sqlite.in_use"
	JournalMode  Name = "sqlite.journal_mode"
	AutoVacuum   Name = "sqlite.auto_vacuum"
	Integrity    Name = "sqlite.integrity"
	SyncLatency  Name = "sqlite.sync_latency"
	SQLiteTables Name = "sqlite.migrations"
	SQLiteClock  Name = "sqlite.clock"
	SQLiteDisk   Name = "sqlite.disk"

	Keys Name = "secrets.keys"

	SourceConnect     Name = "source.connect"
	SourceLag         Name = "source.lag"
	SourceTransaction Name = "source.open_transaction"
	SourceReplicas    Name = "source.replicas"

	ListenAPI   Name = "network.listen"
	ListenOps   Name = "network.ops_listen"
	DNS         Name = "network.dns"
	EgressRules Name = "network.egress"
	EgressProxy Name = "network.egress_proxy"
	OIDCIssuer  Name = "network.oidc_issuer"
	Collector   Name = "network.otlp"
	MailServer  Name = "network.smtp"

	ExpungeList Name = "expunge.list"

	ArchiveAccess Name = "archive.access"
	ArchiveDisk   Name = "archive.disk"
	ArchiveClock  Name = "archive.clock"

	OpenFiles Name = "machine.open_files"
	Memory    Name = "machine.memory"
	FIPS      Name = "machine.fips"
)
