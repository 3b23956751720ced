package sqlstore

import (
	"context"
	"crypto/sha256"

	"github.com/postrider/postrider"
)

// The table portal has one row.
const (
	putPortalSQL = `
	update portal set name = @name, colour = @colour, frame_origins = @frame_origins, options = @options, updated_at = now()`
	portalSQL  = `select name, colour, frame_origins, options, logo_hash, updated_at from portal` // without the bytes of the logo
	putLogoSQL = `update portal set logo = @logo, logo_hash = @hash, updated_at = now()`
	logoSQL    = `select logo from portal where logo is not null`
)

// PutPortal replaces the settings of the portal; see [store.PortalSettings].
func (v Verbs) PutPortal(ctx context.Context, p postrider.Portal) (err error) {
	defer v.calls.Begin("PutPortal").End(&err, "put portal")
	return found(v.db.Exec(ctx, Repeatable, Query{putPortalSQL, Args{
		"name": p.Name, "colour": p.Colour, "frame_origins": append([]string{}, p.FrameOrigins...), "options": p.Options,
	}}))
}

// Portal returns the settings of the portal; see [store.PortalSettings].
func (v Verbs) Portal(ctx context.Context) (_ postrider.Portal, err error) {
	defer v.calls.Begin("Portal").End(&err, "read portal")
	return one(ctx, v.db, Query{portalSQL, nil}, func(row Row, p *postrider.Portal) error {
		return row.Scan(&p.Name, &p.Colour, &p.FrameOrigins, &p.Options, &p.Logo, &p.UpdatedAt)
	})
}

// PutLogo replaces the logo of the portal; see [store.PortalSettings].
func (v Verbs) PutLogo(ctx context.Context, png []byte) (err error) {
	defer v.calls.Begin("PutLogo").End(&err, "put logo")
	var hash any
	if len(png) > 0 {
		hash = sha256.Sum256(png)
	}
	return found(v.db.Exec(ctx, Repeatable, Query{putLogoSQL, Args{"logo": bytesOrNull(png), "hash": hash}}))
}

// Logo returns the logo of the portal; see [store.PortalSettings].
func (v Verbs) Logo(ctx context.Context) (_ []byte, err error) {
	defer v.calls.Begin("Logo").End(&err, "read logo")
	return one(ctx, v.db, Query{logoSQL, nil}, func(row Row, png *[]byte) error { return row.Scan(png) })
}
