package main

import (
	"cmp"
	"strings"

	"github.com/postrider/postrider/apitypes"
)

// sourceTableFlags map an outbox table of the producer's own.
type sourceTableFlags struct {
	Table             string `placeholder:"SCHEMA.TABLE" help:"Read an outbox table of the producer's own, whose rows are deleted once they are read, instead of the tables of postrider outbox install."`
	Preset            string `enum:",debezium" default:"" help:"Columns of the table, where no flag names another: debezium has id, type and payload, and aggregateid as ordering key if there is --order-column."`
	IDColumn          string `name:"id-column" placeholder:"COLUMN" help:"With --table: column with the unique id."`
	OrderColumn       string `placeholder:"COLUMN" help:"With --table: column by which rows are read. Default: the id."`
	AccountColumn     string `placeholder:"COLUMN" help:"With --table: column with the account, by id or uid."`
	FixedAccount      string `placeholder:"ACCOUNT" help:"With --table: account of all rows, by id or uid."`
	TypeColumn        string `placeholder:"COLUMN" help:"With --table: column with the event type."`
	DataColumn        string `placeholder:"COLUMN" help:"With --table: column with the data, as JSON."`
	OrderingKeyColumn string `placeholder:"COLUMN" help:"With --table: column with the ordering key."`
}

// table returns the mapping; nil: there is none.
func (f sourceTableFlags) table() (*apitypes.SourceTable, error) {
	if f.Table == "" {
		if f != (sourceTableFlags{}) {
			return nil, misused("--preset and the flags of columns are for --table")
		}
		return nil, nil
	}
	t := apitypes.SourceTable{
		Name: f.Table, ID: f.IDColumn, Order: f.OrderColumn, Account: f.AccountColumn, FixedAccount: f.FixedAccount, Type: f.TypeColumn,
		Data: f.DataColumn, OrderingKey: f.OrderingKeyColumn,
	}
	if f.Preset == "debezium" {
		t.ID, t.Type, t.Data = cmp.Or(t.ID, "id"), cmp.Or(t.Type, "type"), cmp.Or(t.Data, "payload")
		if t.Order != "" {
			t.OrderingKey = cmp.Or(t.OrderingKey, "aggregateid")
		}
	}
	return &t, nil
}

// tableText returns what a mapping says, like "name public.outbox, id id". It is empty if there is none.
func tableText(t *apitypes.SourceTable) string {
	if t == nil {
		return ""
	}
	var parts []string
	for _, row := range detailsOf(*t) {
		parts = append(parts, strings.Join(row, " "))
	}
	return strings.Join(parts, ", ")
}
