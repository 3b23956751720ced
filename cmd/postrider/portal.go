package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// portalCmd is the group of commands for the customer portal.
type portalCmd struct {
	Link portalLinkCmd `cmd:"" help:"Make a one-time link to the portal of an account. It must be opened within 60 s."`
	Get  portalGetCmd  `cmd:"" help:"Show how the portal looks, and where it may be embedded."`
	Set  portalSetCmd  `cmd:"" help:"Change the settings of the portal. Settings without a flag stay as they are."`
	Logo portalLogoCmd `cmd:"" help:"Show, replace or delete the logo of the portal."`
}

type portalLinkCmd struct {
	target `embed:""`

	Account      string                `arg:"" help:"The account, by id or uid."`
	Name         string                `help:"Who gets the link, for the audit log; for instance an email address."`
	Capabilities []apitypes.Capability `enum:"view,operate,edit,secrets" placeholder:"WORD" help:"What the session may do: ${enum}, separated by commas. Default: all."`
	TTL          time.Duration         `name:"ttl" default:"1h" help:"How long the session lasts, 1m to 1h."`
	Embedded     bool                  `help:"The portal is shown in a frame of a page of your own."`
	Locale       string                `help:"Language of the pages, for example de. Default: the browser's."`
}

// Run makes the link and prints only the link, so that a script can use it.
func (c *portalLinkCmd) Run(ctx context.Context, t terminal) error {
	ms := c.TTL.Milliseconds()
	print := func(t terminal, asJSON bool, s apitypes.PortalSession) error {
		if asJSON {
			return printJSON(t.out, s)
		}
		_, err := fmt.Fprintln(t.out, s.URL)
		return err
	}
	return ask(t, c.target, print, func(api *client.Client) (apitypes.PortalSession, error) {
		return api.CreatePortalSession(ctx, apitypes.PortalSessionCreate{
			Account: c.Account, Name: c.Name, Capabilities: c.Capabilities, TTLMS: &ms, Embedded: c.Embedded, Locale: c.Locale,
		})
	})
}

type portalGetCmd struct {
	target `embed:""`
}

// Run shows the settings.
func (c *portalGetCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, printDetails, func(api *client.Client) (apitypes.Portal, error) { return api.Portal(ctx) })
}

type portalSetCmd struct {
	target `embed:""`

	Name         *string   `help:"Name of your platform, in the title."`
	Colour       *string   `placeholder:"#RRGGBB" help:"Accent colour, dark enough for white text on it; none for the standard one."`
	FrameOrigins *[]string `placeholder:"ORIGIN" help:"Origins whose pages may show the portal in a frame, separated by commas, for example https://app.example; none for no frames."`
	Options      *[]string `placeholder:"NAME" help:"Options of endpoints that customers may set, separated by commas, by their names in the API, for example rate,headers; none for no option, standard for the standard ones."`
}

// Run reads the settings, changes those whose flags are given, and sends all settings, because the
// API replaces them as a whole.
func (c *portalSetCmd) Run(ctx context.Context, t terminal) error {
	if c.Name == nil && c.Colour == nil && c.FrameOrigins == nil && c.Options == nil {
		return misused("nothing to change: name at least one flag, as in --name Acme")
	}
	return ask(t, c.target, printDetails, func(api *client.Client) (apitypes.Portal, error) {
		now, err := api.Portal(ctx)
		if err != nil {
			return now, err
		}
		return api.SetPortal(ctx, c.update(now))
	})
}

// update returns the settings with the changes of the flags.
func (c *portalSetCmd) update(now apitypes.Portal) apitypes.PortalUpdate {
	to := apitypes.PortalUpdate{
		Name: now.Name, Colour: optional(now.Colour), FrameOrigins: now.FrameOrigins, Options: apitypes.Of(now.Options),
	}
	if c.Name != nil {
		to.Name = *c.Name
	}
	if c.Colour != nil {
		if to.Colour = *c.Colour; to.Colour == "none" {
			to.Colour = ""
		}
	}
	if c.FrameOrigins != nil {
		to.FrameOrigins = unlessWord(*c.FrameOrigins, "none")
	}
	if c.Options != nil {
		to.Options = apitypes.Of(append([]string{}, unlessWord(*c.Options, "none")...))
		if len(*c.Options) == 1 && (*c.Options)[0] == "standard" {
			to.Options = apitypes.Null[[]string]()
		}
	}
	return to
}

// unlessWord returns the texts; nil if the only text is the word.
func unlessWord(texts []string, word string) []string {
	if len(texts) == 1 && texts[0] == word {
		return nil
	}
	return texts
}

// portalLogoCmd is the group of commands for the logo.
type portalLogoCmd struct {
	Get    portalLogoGetCmd    `cmd:"" help:"Write the logo into a file."`
	Set    portalLogoSetCmd    `cmd:"" help:"Replace the logo by a PNG of at most 64 KiB and 512 by 512 pixels."`
	Delete portalLogoDeleteCmd `cmd:"" help:"Delete the logo."`
}

type portalLogoGetCmd struct {
	target `embed:""`

	File string `arg:"" help:"The file to write. It must not exist."`
}

// Run writes the logo into a new file.
func (c *portalLogoGetCmd) Run(ctx context.Context, t terminal) error {
	print := func(t terminal, asJSON bool, logo apitypes.Logo) error {
		file, err := os.OpenFile(c.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return fmt.Errorf("write logo: %w", err)
		}
		_, err = file.Write(logo.PNG)
		if closed := file.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return fmt.Errorf("write logo: %w", err)
		}
		if asJSON {
			return printJSON(t.out, logo)
		}
		_, err = fmt.Fprintf(t.out, "%s has %d bytes, SHA-256 %s\n", c.File, len(logo.PNG), logo.SHA256)
		return err
	}
	return ask(t, c.target, print, func(api *client.Client) (apitypes.Logo, error) { return api.PortalLogo(ctx) })
}

type portalLogoSetCmd struct {
	target `embed:""`

	File string `arg:"" help:"The PNG."`
}

// Run replaces the logo. The server refuses a file that is no PNG.
func (c *portalLogoSetCmd) Run(ctx context.Context, t terminal) error {
	image, err := os.ReadFile(c.File)
	if err != nil {
		return fmt.Errorf("read logo: %w", err)
	}
	return change(t, c.target, "the logo is replaced", func(api *client.Client) error {
		_, err := api.SetPortalLogo(ctx, image)
		return err
	})
}

type portalLogoDeleteCmd struct {
	target `embed:""`
}

// Run deletes the logo.
func (c *portalLogoDeleteCmd) Run(ctx context.Context, t terminal) error {
	return change(t, c.target, "the logo is deleted", func(api *client.Client) error { return api.DeletePortalLogo(ctx) })
}
