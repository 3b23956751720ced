package apitypes

// Hold says whether the store is held after a restore.
type Hold struct {
	Held       bool    `json:"held" doc:"True: publishes are accepted, and nothing is sent."`
	Since      *Time   `json:"since" format:"date-time" doc:"Time at which the backup was made or the restored database was held. Null: the store is not held."`
	Reason     *string `json:"reason" enum:"restored,recovered" doc:"restored: a person restored a backup. recovered: PostgreSQL was recovered to a point in time, which a server found at its start. Null: the store is not held."`
	Deliveries *int    `json:"deliveries" doc:"Number of pending deliveries of events from before the hold. Each may have been sent already after the backup was made, and is sent again. 0 while the store is not held; in the response to the resumption the number at that time. Null: for callers of one account, since the number is of all accounts."`
	FanOuts    *int    `json:"fan_outs" doc:"Number of the events from before the hold for which deliveries are still being created, for up to all endpoints of an account. They may repeat, too. Null: for callers of one account."`
}
