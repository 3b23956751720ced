module github.com/postrider/postrider/compat

go 1.26.0

require (
	github.com/google/go-github/v88 v88.0.0
	github.com/standard-webhooks/standard-webhooks/libraries v0.0.1
	github.com/stripe/stripe-go/v85 v85.0.0
	github.com/svix/svix-webhooks v1.44.0
)

require (
	github.com/google/go-querystring v1.2.0 // indirect
	gopkg.in/validator.v2 v2.0.1 // indirect
)
