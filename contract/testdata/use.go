// Use publishes an event with the client that was generated, waits for its dead
// letter, and replays it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"example.com/postrider/api"
)

func main() {
	config := api.NewConfiguration()
	config.Servers = api.ServerConfigurations{{URL: os.Getenv("SERVER")}}
	client := api.NewAPIClient(config)
	ctx, cancel := context.WithTimeout(context.WithValue(context.Background(), api.ContextAccessToken, os.Getenv("KEY")), time.Minute)
	defer cancel()

	event := api.NewEventCreate(map[string]any{"order_id": 42}, os.Getenv("TYPE"))
	event.SetAccount("acme")
	receipt, _, err := client.EventsAPI.PublishEvent(ctx).EventCreate(*event).Execute()
	if err != nil {
		log.Fatalf("publish: %v", err)
	}
	fmt.Printf("published %s: %d delivery\n", receipt.Id, receipt.GetDeliveries())

	letter := waitForDeadLetter(ctx, client)
	fmt.Printf("dead letter %s: %s after %d attempt, last status %d, resolution set: %t\n",
		letter.Delivery, letter.Reason, letter.Attempts, letter.GetLastStatusCode(), letter.Resolution.Get() != nil)

	replay, _, err := client.DeadLettersAPI.ReplayDeadLetter(ctx, letter.Delivery).Execute()
	if err != nil {
		log.Fatalf("replay: %v", err)
	}
	fmt.Printf("replay %s of %s: %s\n", replay.Id, replay.GetReplayedFrom(), replay.Status)
}

func waitForDeadLetter(ctx context.Context, client *api.APIClient) api.DeadLetter {
	for ticks := time.NewTicker(100 * time.Millisecond); ; <-ticks.C {
		page, _, err := client.DeadLettersAPI.ListDeadLetters(ctx).Account("acme").EventType(os.Getenv("TYPE")).Execute()
		if err != nil {
			log.Fatalf("list dead letters: %v", err)
		}
		if len(page.Data) > 0 {
			return page.Data[0]
		}
	}
}
