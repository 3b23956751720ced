// Command mailbox starts a mail server for the tests of modules that cannot import package testkit.
// The first line of its standard output is a JSON object with the server's address, its authority
// as PEM, and its user and password. Each later line is an email. The program ends when its
// standard input ends.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/postrider/postrider/internal/testkit"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "mailbox:", err)
		os.Exit(1)
	}
}

func run() error {
	out := json.NewEncoder(os.Stdout)
	// failed has the errors of output. The mail server calls Took, and run reads failed after the
	// server has ended.
	var failed error
	server := testkit.MailServer{Took: func(e testkit.Email) {
		failed = errors.Join(failed, out.Encode(map[string]any{"to": e.To, "header": e.Header, "content": string(e.Content)}))
	}}
	end, err := server.Listen(context.Background())
	if err != nil {
		return err
	}
	err = out.Encode(map[string]string{
		"address": server.Address, "authority": string(server.CA.PEM()), "user": testkit.MailUser, "password": testkit.MailPassword,
	})
	_, readErr := io.Copy(io.Discard, os.Stdin)
	return errors.Join(err, readErr, end(), failed)
}
