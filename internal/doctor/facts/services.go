package facts

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/expunge"
	"github.com/postrider/postrider/internal/messenger"
)

// setup is the set-up that is examined.
type setup struct {
	config.Config

	version string // of this program
}

// settled returns a probe with a check that is already made.
func settled(c doctor.Check) doctor.Probe {
	return doctor.Probe{Name: c.Name, Look: func(context.Context) []doctor.Check { return one(c) }}
}

// one returns a list of one check.
func one(c doctor.Check) []doctor.Check { return []doctor.Check{c} }

// mailPatience is the time limit of each step with the mail server.
const mailPatience = 4 * time.Second

// examineMail makes all steps of sending an email except the sending. If no mail server is set,
// there is no check.
func (c setup) examineMail(ctx context.Context) []doctor.Check {
	email, ok := c.Email()
	if !ok {
		return nil
	}
	email.Timeout = mailPatience
	failed, err := email.Check(ctx)
	if err != nil {
		return one(doctor.Warning(doctor.MailServer, "%s: %s: %s", email.Address, failed, err).Change("%s", mailRemedies[failed]))
	}
	return one(doctor.Okay(doctor.MailServer, "%s accepts emails from %s", email.Address, email.From.Address))
}

// mailRemedies says what to change, for each step with the mail server that can fail.
var mailRemedies = map[messenger.Step]string{
	messenger.StepConnect: "correct --smtp-url, or let this machine reach the mail server; many networks close port 25. " +
		"Deliveries work without it",
	messenger.StepEncrypt: "let --smtp-url begin with smtp:// if the mail server offers STARTTLS (port 587), or with smtps:// if it begins with TLS (port 465), " +
		"name it as its certificate does, and set --smtp-ca-file if the certificate is of your own authority",
	messenger.StepLogin:  "correct the user of --smtp-url and the password in POSTRIDER_SMTP_PASSWORD or --smtp-password-file",
	messenger.StepSender: "set --smtp-from to an address from which the mail server lets this user send",
}

// examineArchive writes, reads, lists and deletes a small object, as the archive does. If no
// archive is set, there is no check.
func (c setup) examineArchive(ctx context.Context) []doctor.Check {
	switch folder, bucket := c.Place(); {
	case folder != "":
		return c.examineArchiveFolder(ctx, folder)
	case bucket.Name != "":
		return examineBucket(ctx, bucket)
	}
	return nil
}

// examineArchiveFolder checks an archive that is a folder. With SQLite it also checks whether the
// folder and the store share a disk. With PostgreSQL this is unknown.
func (c setup) examineArchiveFolder(ctx context.Context, folder string) []doctor.Check {
	err := archive.Probe(ctx, archive.Folder(folder))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return one(doctor.Failure(doctor.ArchiveAccess, "%s", err).
			Change("mount the disk of the archive, or make the folder %s: the server does not make it, "+
				"so that it never fills the disk below", folder))
	case err != nil:
		return one(doctor.Failure(doctor.ArchiveAccess, "%s", err).
			Change("let the user of the server write to %s (chown, chmod 700), and free space on its disk", folder))
	}
	checks := one(doctor.Okay(doctor.ArchiveAccess, "%s can be written, read and listed", folder))
	if data := c.SQLiteDir(); data != "" {
		if same, err := doctor.SameDisk(folder, existing(data)); err == nil && same {
			return append(checks, doctor.Warning(doctor.ArchiveDisk, "%s and the data folder %s are on one file system", folder, data).
				Change("put the archive on another disk: on this one it takes the space that deleting is to free, and is lost with it"))
		}
	}
	if space, err := doctor.SpaceOf(folder); err == nil {
		checks = append(checks, space.Check(doctor.ArchiveDisk, folder))
	}
	return checks
}

// examineProxy connects to the proxy, which every delivery needs. If no proxy is set, there is no
// check.
func (c setup) examineProxy(ctx context.Context) []doctor.Check {
	proxy, err := c.Proxy()
	if err != nil || proxy == nil {
		return nil
	}
	shown := config.MaskURL(c.EgressProxy)
	conn, err := egress.DialOperator(ctx, "tcp", proxy.Host)
	if err != nil {
		return one(doctor.Failure(doctor.EgressProxy, "%s: %s", shown, err).
			Change("start the proxy, correct --egress-proxy, or let this machine reach it: until then every delivery fails as proxy_error"))
	}
	if err := conn.Close(); err != nil {
		return one(doctor.Failure(doctor.EgressProxy, "%s: %s", shown, err).Change("look at the log of the proxy"))
	}
	return one(doctor.Okay(doctor.EgressProxy, "%s accepts connections", shown))
}

// examineExpungeList checks whether the expunge list can be written. If no list is set, there is no
// check.
func (c setup) examineExpungeList() []doctor.Check {
	if c.ExpungeList == "" {
		return nil
	}
	if err := expunge.CheckList(c.ExpungeList); err != nil {
		return one(doctor.Failure(doctor.ExpungeList, "%s", err).
			Change("mount the disk of --expunge-list, and let the user of the server write the file: until then every expunge is refused"))
	}
	return one(doctor.Okay(doctor.ExpungeList, "%s can be written", c.ExpungeList))
}

// existing returns the path, or the nearest folder above it that exists.
func existing(path string) string {
	for {
		if _, err := doctor.SpaceOf(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// bucketSkew is the difference between the clocks above which the check warns. Servers of buckets
// refuse requests if the difference is 15 minutes or more.
const bucketSkew = 5 * time.Minute

// examineBucket checks an archive that is a bucket.
func examineBucket(ctx context.Context, bucket archive.Bucket) (checks []doctor.Check) {
	target, err := archive.OpenS3(bucket)
	if err == nil {
		defer target.Close()
		err = archive.Probe(ctx, target)
	}
	if err == nil {
		checks = one(doctor.Okay(doctor.ArchiveAccess, "objects of the bucket %s at %s can be written, read, listed and deleted",
			bucket.Name, bucket.Endpoint))
	} else {
		checks = one(doctor.Failure(doctor.ArchiveAccess, "bucket %s at %s: %s", bucket.Name, bucket.Endpoint, err).Change("%s",
			bucketRemedy(archive.Code(err))))
	}
	there, err := bucket.ServerTime(ctx)
	if err != nil { // the check of the access says that the server cannot be reached
		return checks
	}
	skew := time.Since(there).Abs().Round(time.Second)
	if skew > bucketSkew {
		return append(checks, doctor.Warning(doctor.ArchiveClock, "the clocks of this machine and of %s differ by %s", bucket.Endpoint, skew).
			Change("let NTP set the clock of this machine: from 15 minutes on the server refuses everything"))
	}
	return append(checks, doctor.Okay(doctor.ArchiveClock, "the clock of this machine and that of %s agree", bucket.Endpoint))
}

// bucketRemedy says what to change when the server of a bucket refuses a request with the code.
func bucketRemedy(code string) string {
	switch code {
	case "InvalidAccessKeyId", "SignatureDoesNotMatch":
		return "correct --archive-access-key and the secret in POSTRIDER_ARCHIVE_SECRET_KEY or --archive-secret-key-file"
	case "AccessDenied":
		return "give the access key the rights s3:PutObject, s3:GetObject and s3:DeleteObject for the objects of the bucket, and s3:ListBucket for the bucket"
	case "NoSuchBucket":
		return "make the bucket, or correct its name in --archive"
	case "RequestTimeTooSkewed":
		return "let NTP set the clock of this machine"
	case "AuthorizationHeaderMalformed", "PermanentRedirect", "IllegalLocationConstraintException":
		return "set --archive-region to the region of the bucket, and --archive-endpoint to the server of that region"
	}
	return "correct --archive-endpoint and --archive, or let this machine reach the server of the bucket"
}
