# The jobs that workers of Sidekiq do. REDIS_URL says where.
require "sidekiq"

Sidekiq.options[:poll_interval_average] = 1

def redis(&block)
  Sidekiq.redis(&block)
end

# Counts how often it ran, by its number.
class Count
  include Sidekiq::Worker

  def perform(number)
    redis { |connection| connection.hincrby("runs", number, 1) }
  end
end

# Notes the order in which jobs ran.
class Note
  include Sidekiq::Worker

  def perform(name)
    redis { |connection| connection.rpush("notes", name) }
  end
end

# Fails twice before it succeeds.
class Flaky
  include Sidekiq::Worker
  sidekiq_options retry: 5
  sidekiq_retry_in { 1 }

  def perform(name)
    tries = redis { |connection| connection.incr("tries:#{name}") }
    raise "not yet" if tries < 3
    redis { |connection| connection.rpush("recovered", name) }
  end
end

# Never succeeds.
class Hopeless
  include Sidekiq::Worker
  sidekiq_options retry: 0
  sidekiq_retries_exhausted do |job, error|
    redis { |connection| connection.rpush("given up", "#{job["class"]} #{error.message}") }
  end

  def perform
    raise "never"
  end
end

# Says that it has begun, and takes long until it is allowed to end.
class Long
  include Sidekiq::Worker

  def perform(name)
    redis { |connection| connection.rpush("begun", name) }
    sleep 0.05 until redis { |connection| connection.exists?("end") }
    redis { |connection| connection.rpush("ended", name) }
  end
end
