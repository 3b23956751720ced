package sqlite

// Statements returns, by name, the statements that run for every delivery or
// that every list is made of, those about many rows for two of them. Their
// query plans are kept in testdata/plans, so that a change of an index shows
// as a difference.
func Statements() map[string]string {
	two := func(b bulk) string { return b.head + tuples(2, b.columns) + b.tail }
	return map[string]string{
		"attempts_of_delivery":     attemptsOfDeliverySQL,
		"attempts_of_event":        attemptsOfEventSQL,
		"changes":                  changesSQL,
		"circuit":                  circuitSQL,
		"circuits":                 circuitsSQL,
		"claim":                    claimSQL,
		"claim_fan_outs":           claimFanOutsSQL,
		"claimed_events":           two(bulk{claimedEventsSQL, ")", 1}),
		"dead_letters_of_account":  deadLettersOfAccountSQL,
		"dead_letters_of_endpoint": deadLettersOfEndpointSQL,
		"dead_since":               deadSinceSQL,
		"deleted":                  deletedSQL,
		"delivered_since":          deliveredSinceSQL,
		"deleted_pauses":           deletedPausesSQL,
		"deliveries":               deliveriesSQL,
		"deliveries_of_account":    deliveriesOfAccountSQL,
		"deliveries_of_endpoint":   deliveriesOfEndpointSQL,
		"deliveries_of_event":      deliveriesOfEventSQL,
		"delivery":                 deliverySQL,
		"due":                      dueSQL,
		"due_newer":                dueNewerSQL,
		"end":                      two(bulk{endSQL, ")", 1}),
		"endpoint_by_uid":          endpointByUIDSQL,
		"endpoints_of_account":     endpointsOfAccountSQL,
		"events_of_account":        eventsOfAccountSQL,
		"expired":                  expiredSQL,
		"forget_keys":              forgetKeysSQL,
		"held":                     two(bulk{heldSQL, ")", 1}),
		"holder":                   holderSQL,
		"judged":                   judgedSQL,
		"key_busy":                 keyBusySQL,
		"keys_by_hash":             keysByHashSQL,
		"last_standing":            lastStandingSQL,
		"lease":                    two(bulk{leaseSQL, leaseTail, 3}),
		"move":                     moveSQL,
		"newest_event":             newestEventSQL,
		"next_sequence":            nextSequenceSQL,
		"next_turn":                nextTurnSQL,
		"ordered_keys":             orderedKeysSQL,
		"pause":                    pauseSQL,
		"pending_replay":           pendingReplaySQL,
		"recorded":                 recordedSQL,
		"release":                  releaseSQL,
		"secrets":                  secretsSQL,
		"sequences":                two(bulk{sequencesSQL, ")", 1}),
		"standings":                standingsSQL,
		"unpause":                  unpauseSQL,
		"waiting":                  waitingSQL,
	}
}
